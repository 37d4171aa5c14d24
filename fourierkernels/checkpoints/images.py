"""Folders of images, in the order of their paths."""

from pathlib import Path

from fourierkernels.checkpoints.file_folders import FileFolder, files_under
from fourierkernels.foundation.image_files import IMAGE_FORMATS, open_image


class ImageFolder(FileFolder):
    """The image files under a folder, in the order of their paths; iterating gives the paths."""


def read_images(folder: str | Path) -> ImageFolder:
    """Return the images in a folder and its subfolders, recognised by their suffix.

    Only the header of every file is read here; pixels are read with the network.

    Parameters
    ----------
    folder : str or Path
        Suffixes are the keys of :data:`~fourierkernels.foundation.image_files.IMAGE_FORMATS`, in
        lower or upper case.

    Raises
    ------
    ValueError
        If there is no such folder or it has no image, or if a file is not an image or has more than
        :data:`~fourierkernels.foundation.image_files.MOST_PIXELS` pixels.
    """
    path, files = files_under("image", folder, IMAGE_FORMATS)
    for file in files:
        with open_image(file):
            pass  # its header is read
    return ImageFolder.of((path, files))
