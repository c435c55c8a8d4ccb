"""The version of this package: that of the Muster release it belongs to."""

VERSION = "0.2.0"
