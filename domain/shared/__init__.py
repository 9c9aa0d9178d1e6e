"""What the machines of Steptrail store in common. Imports the kernel only, and no machine."""
