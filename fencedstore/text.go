package fencedstore

import (
	"strconv"
	"strings"
)

// maxText is the length of the longest text a valid fence can have: an int64,
// two colons, and every byte of holder and resource escaped.
const maxText = 19 + 1 + 3*MaxHolder + 1 + 3*MaxResource

// String returns f as text for headers, queues and command lines:
// ID:holder:resource, the ID in decimal, holder and resource with every byte
// escaped as %XX that is not a letter, a digit or one of - . _ ~ /. The text
// carries the secret holder; print f itself to leave it out.
// [ParseFence] is the inverse.
func (f Fence) String() string {
	b := make([]byte, 0, len(f.Holder)+len(f.Resource)+24)
	return string(f.appendText(b))
}

func (f Fence) appendText(b []byte) []byte {
	b = strconv.AppendInt(b, f.ID, 10)
	b = appendEscaped(append(b, ':'), f.Holder)
	return appendEscaped(append(b, ':'), f.Resource)
}

// MarshalText implements [encoding.TextMarshaler] with the form of
// [Fence.String]. It refuses an invalid fence with ErrInvalidFence.
func (f Fence) MarshalText() ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.appendText(nil), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseFence].
func (f *Fence) UnmarshalText(text []byte) error {
	p, err := ParseFence(string(text))
	if err != nil {
		return err
	}
	*f = p
	return nil
}

// ParseFence reads the form that [Fence.String] writes and nothing else: for
// every s it accepts, ParseFence(s).String() is s again. The ID has ASCII
// digits only: no sign, space, leading zero, exponent or fraction, and it fits
// an int64. Anything else is an *[InvalidFenceError]; its text never quotes
// the input, which may hold a secret.
func ParseFence(s string) (Fence, error) {
	if len(s) > maxText {
		return Fence{}, &InvalidFenceError{Field: "text", Reason: "is longer than any fence"}
	}
	id, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Fence{}, &InvalidFenceError{Field: "text", Reason: "is not ID:holder:resource"}
	}
	holder, resource, ok := strings.Cut(rest, ":")
	if !ok {
		return Fence{}, &InvalidFenceError{Field: "text", Reason: "is not ID:holder:resource"}
	}
	var f Fence
	var err error
	if f.ID, err = ParseID(id); err != nil {
		return Fence{}, err
	}
	if f.Holder, ok = unescape(holder); !ok {
		return Fence{}, &InvalidFenceError{Field: "Holder", Reason: "is not escaped the way String does it"}
	}
	if f.Resource, ok = unescape(resource); !ok {
		return Fence{}, &InvalidFenceError{Field: "Resource", Reason: "is not escaped the way String does it"}
	}
	if err := f.Validate(); err != nil {
		return Fence{}, err
	}
	return f, nil
}

// ParseID reads a fence ID in decimal, by the rules of [ParseFence].
func ParseID(s string) (int64, error) {
	if s == "" || len(s) > 19 || s[0] == '0' {
		return 0, &InvalidFenceError{Field: "ID", Reason: "is not a positive decimal number of an int64"}
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, &InvalidFenceError{Field: "ID", Reason: "has something other than ASCII digits"}
		}
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, &InvalidFenceError{Field: "ID", Reason: "does not fit an int64"}
	}
	return id, nil
}

func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~' || c == '/'
}

const upperHex = "0123456789ABCDEF"

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

// unescape inverts appendEscaped and refuses every other spelling.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
			if hi < 0 || lo < 0 || plain(byte(hi<<4|lo)) {
				return "", false
			}
			c, i = byte(hi<<4|lo), i+2
		} else if !plain(c) {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
