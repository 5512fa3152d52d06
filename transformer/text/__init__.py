"""Text in and out: vocabularies, tokenizers, batches and decoding."""
