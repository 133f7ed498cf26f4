"""How surprising a letter is after another in readable text, in bits, by our own sources.

Made by scripts/make_letter_pairs.py.
"""

LETTERS = {
    "^": "45454466486554449434775a9a",
    "a": "f544b75a587443f4e33378875a",
    "b": "3b6629ff65f38c39f5594fff3f",
    "c": "4f6c3fe36f43cb28f6936bdf7f",
    "d": "37c61b6e3cb6be4ae62759ab6f",
    "e": "5a43657c8ac453a56234b6756e",
    "f": "4ebf35ff2ff4ac2cf2a55fff9f",
    "g": "3bad2a543fb69449f34659ff8f",
    "h": "2cf81aff3fc7ae3ff6756fef7f",
    "i": "7755444ccf954246d533b6f9f7",
    "j": "7ccc1ccc7ccccc2cac1c5ccccc",
    "k": "59b71eae3ec9e598ca387aaebe",
    "l": "3bc423bd3f947e38f945588f5f",
    "m": "349b1edb4f975732fd5a7fff9f",
    "n": "4a53354d6d778637e84365aa6e",
    "o": "6654856f7b644255b2544759aa",
    "p": "3bc73ac84fd3ff35e3635ff97f",
    "q": "7ccbccccccc5ccccc6bc0cbbcc",
    "r": "49752c6f4f776429c54346af5f",
    "s": "5f6a29b54d589d458d424d6f7f",
    "t": "4a682be23ff89d48f3454e8d6f",
    "u": "7657367f6fd442a4f243dbedac",
    "v": "2eeb1eae3ee8ba4eee6beceebe",
    "w": "3c9b3ee23eeee43de45deeeede",
    "x": "4d374ddd4ddbddd2dd81dddb6d",
    "y": "68773aad4dd65642dd22dd8ddb",
    "z": "6bbb0bbb3bbb5b6bbbbbb9bb67",
}
"""After a letter, or `^` at the beginning of a word: a to z, hexadecimal."""

STEPS = {
    " ": (0.3, 3.0, 6.0, 4.5, 5.8),
    "a": (0.1, 7.5, 10.5, 4.7, 11.8),
    "A": (1.0, 1.2, 8.9, 4.9, 12.3),
    "0": (3.1, 5.9, 0.6, 2.2, 6.5),
    "_": (0.3, 4.1, 5.4, 3.4, 8.5),
    ".": (0.8, 4.7, 5.6, 3.3, 1.9),
}
"""From a class of characters to each class in the order of CLASSES."""
