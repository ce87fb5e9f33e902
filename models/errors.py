"""What can go wrong with networks and ensembles, one tree:

ModelError                   a ValueError; the message names what was seen
├── ArchitectureError        a network that is unknown, not allowed, or does not fit its weights
├── ProgramError             a TorchScript or exported-program file that will not be run
├── DataError                a data folder that is missing, damaged or not what it says
├── TrainingError            a checkpoint of another run, or weights that cannot be written
├── RankingError             a hold-out that cannot rank these members
└── RegistryError            the folder of an ensemble
    ├── EnsembleNameError    a name that is no name, or is taken
    ├── MissingEnsembleError no ensemble of this name
    ├── DescriptionError     an ensemble.toml that does not say what it must
    └── FileError            a file that is missing, extra, tampered, of another size, or elsewhere
"""

from __future__ import annotations

from smoothcert.errors import SmoothcertError


class ModelError(SmoothcertError, ValueError):
    """Anything wrong with a network or an ensemble."""


class ArchitectureError(ModelError):
    """A network that is unknown, not allowed, or does not fit its weights."""


class ProgramError(ModelError):
    """A TorchScript or exported-program file that will not be run."""


class DataError(ModelError):
    """A data folder that is missing, damaged or not what it says."""


class TrainingError(ModelError):
    """A checkpoint of another run, or weights that cannot be written."""


class RankingError(ModelError):
    """A hold-out that cannot rank these members."""


class RegistryError(ModelError):
    """Anything wrong with the folder of an ensemble."""


class EnsembleNameError(RegistryError):
    """A name that is no name, or is taken."""


class MissingEnsembleError(RegistryError):
    """No ensemble of this name."""


class DescriptionError(RegistryError):
    """An ensemble.toml that does not say what it must."""


class FileError(RegistryError):
    """A file that is missing, extra, tampered with, of another size, or outside its folder."""
