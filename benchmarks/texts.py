"""Prompts for speculation benchmarks: prose to continue, and text that repeats itself."""

from __future__ import annotations

PROSE = (
    "Tom looked at the old house and",
    "And it came to pass, that when the king of Israel saw",
    "The boy ran down to the river, and",
    "In the beginning God",
    "Huck sat down by the fire and said",
    "And Jesus answered and said unto them,",
    "The widow cried over the boy, and called him",
    "Then said David to the people,",
    "Aunt Polly stood in the door and",
    "And the children of Israel went up out of",
    "It was a dark night, and the wind",
    "Now the word of the LORD came unto",
    "Tom's heart jumped when he saw",
    "And the sons of Aaron brought the",
    "The schoolmaster looked over the room and",
    "Blessed is the man that",
    "The two boys crept up to the window and",
    "Behold, I will send my messenger, and he",
    "Becky turned her face away and",
    "And when he had opened the book,",
)

_PASSAGES = (
    "And the angel of the LORD said unto him, Go up to the city, and tell the people all these "
    "words. And he went up, and told them.",
    "Tom said he would go to the cave in the morning. Huck said he would go too, if there was "
    "anything to eat in it.",
    "The fence was long and the day was hot, and there was nobody to help him but the boys who "
    "came by to laugh.",
    "Return a list of the names in the current scope. Without arguments, return the names in the "
    "local scope.",
    "And God saw that it was good. And the evening and the morning were the third day.",
)

#: A passage three times and its beginning again: made to be copied.
COPY = tuple("\n\n".join([text] * 3) + "\n\n" + text[:24] for text in _PASSAGES)
