"""The command line. `main.main` is the way in; each group of commands is a module that registers itself."""
