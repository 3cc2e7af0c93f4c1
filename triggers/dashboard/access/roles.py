"""The rights of people: each role may do all that the role before it may, and more."""

from enum import IntEnum

from history.errors import ConfigurationError


class Role(IntEnum):
    """The rights of a user.

    VIEWER: see everything except headers and bodies. OPERATOR: also see those, decide about parked messages,
    suspend and resume. ADMIN: also disable and enable, which lasts.
    """

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The role as people write it."""
        return self.name.lower()

    @classmethod
    def named(cls, word: str, setting: str) -> "Role":
        """Return the role of a name.

        Raises:
            ConfigurationError: no role has this name.
        """
        role = cls.of(word)
        if role is None:
            raise ConfigurationError(setting, f"{word!r} is no role", "use viewer, operator or admin")
        return role

    @classmethod
    def of(cls, word: str) -> "Role | None":
        """Return the role of a name; None if there is none."""
        return next((role for role in cls if role.word == word.strip().lower()), None)
