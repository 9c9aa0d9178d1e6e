"""The parts of which every machine of Steptrail is made. This package knows no kind of machine."""
