"""The events and values that all machines of Steptrail share. Imports the kernel only, and no machine."""
