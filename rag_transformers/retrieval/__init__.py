"""Question -> ranked chunks: by words, by meaning, and by a walk over the names that both hold."""
