"""Fed-SE: organisations improve one LLM agent together without showing what their agents saw."""

__version__ = "0.1.0"
