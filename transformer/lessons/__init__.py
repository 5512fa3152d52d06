"""Small exact computations that the teaching pages show: NumPy arrays and labels, made by the library's own layers."""
