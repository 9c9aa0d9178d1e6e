"""The criteria that ship with Steptrail, one idea a module. Each also says whether it is a guard."""
