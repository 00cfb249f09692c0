package s3compat

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Defaults and limits of [Options].
const (
	DefaultPrefix         = "fenced"
	DefaultInlineLimit    = 8 << 10
	DefaultPartSize       = 8 << 20
	MinPartSize           = 5 << 20
	DefaultAttemptTimeout = 10 * time.Second
	DefaultSettleTimeout  = 30 * time.Second
	DefaultGrace          = time.Hour
	// MaxRegister is the size of the largest register, in bytes. Entries and
	// inline values that do not fit it go to an object of their own, which
	// costs a request for each commit and each read. An entry takes about 200
	// bytes.
	MaxRegister = 1 << 20
	// MaxManifest is how much the entries and inline values of a resource may
	// take, in bytes. Each commit sends all of them.
	MaxManifest = 16 << 20
	// MaxKey is the length of the longest key, in bytes.
	MaxKey = 1024
)

// inlineTotal bounds the inline values of one register: each commit sends all
// of them again.
const inlineTotal = 256 << 10

// Options change a [Store]. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Prefix is where everything is kept: its keys begin with Prefix and a
	// slash. Empty means DefaultPrefix.
	Prefix string
	// InlineLimit is the size of the largest value that is kept in the
	// register itself, in bytes. Zero means DefaultInlineLimit; negative means
	// none. When the inline values of a resource take 256 KiB, further ones
	// become objects of their own.
	InlineLimit int
	// PartSize is the size of a part of a multipart upload, in bytes, and about
	// what a Put needs of memory. S3 allows 10 000 parts, so it bounds the size
	// of a value of unknown length. Zero means DefaultPartSize; the least is
	// MinPartSize.
	PartSize int
	// AttemptTimeout bounds one request for the register. Zero means
	// DefaultAttemptTimeout; the least is a millisecond.
	AttemptTimeout time.Duration
	// SettleTimeout bounds how long a request for a claim or a commit is
	// repeated until its outcome is known. No repetition begins after it; then
	// it is an ErrUnknownOutcome, or the last error when nothing can have
	// happened. Zero means DefaultSettleTimeout; the least is a millisecond.
	SettleTimeout time.Duration
	// Grace is how long GC leaves data that nothing refers to any more, for
	// readers that are still at it. It must exceed the difference of the
	// clocks of the holders and the store. Zero means DefaultGrace; negative
	// means none.
	Grace time.Duration
	// Presigner signs uploads. Without one [Store.PresignPut] fails.
	Presigner Presigner
}

// OptionError says what is wrong with an argument.
type OptionError struct {
	// Name is the argument or the field of an options struct.
	Name string
	// Reason completes the sentence that Name begins.
	Reason string
}

func (e *OptionError) Error() string { return "s3compat: " + e.Name + " " + e.Reason }

// withDefaults returns a copy of o with the zero fields filled in.
func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Prefix == "" {
		full.Prefix = DefaultPrefix
	}
	fill(&full.InlineLimit, DefaultInlineLimit)
	fill(&full.PartSize, DefaultPartSize)
	fill(&full.AttemptTimeout, DefaultAttemptTimeout)
	fill(&full.SettleTimeout, DefaultSettleTimeout)
	fill(&full.Grace, DefaultGrace)
	full.InlineLimit, full.Grace = max(full.InlineLimit, -1), max(full.Grace, 0)
	return full, full.validate()
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	switch {
	case !utf8.ValidString(o.Prefix), strings.HasPrefix(o.Prefix, "/"), strings.HasSuffix(o.Prefix, "/"), len(o.Prefix) > 400:
		return &OptionError{"Prefix", "must be UTF-8 of at most 400 bytes without a slash at its ends"}
	case o.InlineLimit > inlineTotal:
		return &OptionError{"InlineLimit", fmt.Sprintf("is %d, more than %d", o.InlineLimit, inlineTotal)}
	case o.PartSize < MinPartSize:
		return &OptionError{"PartSize", fmt.Sprintf("is %d, less than %d", o.PartSize, MinPartSize)}
	case o.AttemptTimeout < time.Millisecond:
		return &OptionError{"AttemptTimeout", fmt.Sprintf("is %v, less than a millisecond", o.AttemptTimeout)}
	case o.SettleTimeout < time.Millisecond:
		return &OptionError{"SettleTimeout", fmt.Sprintf("is %v, less than a millisecond", o.SettleTimeout)}
	}
	return nil
}
