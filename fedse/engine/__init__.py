"""A vLLM server that acts: adapters are loaded under their digest, tokens come back as sampled."""
