"""The teaching pages."""
