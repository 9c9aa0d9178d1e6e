"""The built-in criteria, one idea in each module. Each says whether it is a guard."""
