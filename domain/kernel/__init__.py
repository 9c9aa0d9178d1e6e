"""What any machine of Steptrail is made of. Knows no kind of machine."""
