"""White space as ECMAScript knows it."""

from typing import Final

JS_WHITESPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""Every character that ``\\s`` matches and ``trim()`` drops: WhiteSpace and LineTerminator of ECMA-262.

U+0085 and U+001C to U+001F, which Python counts, are none.
"""
