"""How the translators were made."""
