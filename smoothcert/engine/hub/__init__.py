"""Models of the Hugging Face hub, whose code is that of timm or transformers. This needs the extra `hub`.

Nothing of a repository is executed: it contributes JSON, of which only plain values are used, and tensors as
safetensors. The code of a network is that of the installed library.
"""
