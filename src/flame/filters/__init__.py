"""Classical methane filters in NumPy, one method a file."""
