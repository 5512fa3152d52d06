"""How each shipped checkpoint was made."""
