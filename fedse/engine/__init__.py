"""A vLLM server as what acts: adapters go in under their digest, tokens come out as sampled."""
