"""Ridge regression with Flower and numpy."""
