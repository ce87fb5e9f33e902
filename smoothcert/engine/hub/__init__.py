"""Models of the Hugging Face hub, run by the code of timm or transformers. This needs the extra `hub`.

Nothing in a repository is executed. It contributes JSON, of which only plain values are used, and tensors as
safetensors. The code of a network is that of the installed library.
"""
