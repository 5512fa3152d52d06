"""The page What if: attention that is changed, and what becomes of the sentence."""
