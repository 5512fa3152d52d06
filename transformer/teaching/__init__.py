"""A tour of the pages, questions whose answers are computed, misconceptions, a glossary, and handouts to print."""
