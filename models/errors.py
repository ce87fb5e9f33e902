"""Errors of networks, training and ensembles on disk. The message names the value seen.

SmoothcertError
└── ModelError (also a ValueError)
    ├── ArchitectureError            a network that is unknown, not allowed, or does not fit its weights
    ├── ProgramError                 a TorchScript or exported-program file that is damaged or not allowed to run
    ├── DataError                    images that are missing, damaged or differ from their digest
    ├── TrainingError                bad options, a checkpoint of another run, or weights that cannot be written
    ├── RankingError                 a hold-out that cannot rank these members
    └── RegistryError                the folder of an ensemble
        ├── EnsembleNameError        a name that is not valid, or is taken
        ├── MissingEnsembleError     there is no ensemble of this name
        ├── DescriptionError         an ensemble.toml with a missing, unknown or inconsistent value
        └── FileError                a file that is missing, extra, tampered with, of another size, or a link

Errors about the members of an ensemble (MemberError, VotingError, ...) are those of smoothcert/engine/errors.py.
"""

from __future__ import annotations

from smoothcert.errors import SmoothcertError


class ModelError(SmoothcertError, ValueError):
    """The root of this tree."""


class ArchitectureError(ModelError):
    """A network that is unknown, not allowed, or does not fit its weights."""


class ProgramError(ModelError):
    """A TorchScript or exported-program file that is damaged or not allowed to run."""


class DataError(ModelError):
    """Images that are missing, damaged or differ from their digest."""


class TrainingError(ModelError):
    """Bad options, a checkpoint of another run, or weights that cannot be written."""


class RankingError(ModelError):
    """A hold-out that cannot rank these members."""


class RegistryError(ModelError):
    """An error in the folder of an ensemble."""


class EnsembleNameError(RegistryError):
    """A name that is not valid, or is taken."""


class MissingEnsembleError(RegistryError):
    """There is no ensemble of this name."""


class DescriptionError(RegistryError):
    """An ensemble.toml with a missing, unknown or inconsistent value."""


class FileError(RegistryError):
    """A file that is missing, extra, tampered with, of another size, or a link."""
