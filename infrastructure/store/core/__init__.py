"""What the stores share, whatever the database."""
