"""A plugin module that does not import."""

import a_module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
