"""Fed-SE: organisations improve one LLM agent together without showing what their agents saw.

The public names are listed in `__init__.pyi`; each is imported from its module when it is first
used, so that `import fedse` costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
