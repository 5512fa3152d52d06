"""A tour of the pages, questions whose answers are computed, a glossary, and handouts to print."""
