package fencedstore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"
)

// MaxResource and MaxHolder are the longest resource name and holder, in
// bytes, that [Fence.Validate] accepts.
const (
	MaxResource = 512
	MaxHolder   = 128
)

// Fence is one tenure of one resource: proof of who held it and in which
// order. A store compares it with the newest fence it has seen and refuses an
// older one.
//
// The zero Fence is invalid and refused everywhere. A Fence is a value: copy
// it, compare it with ==, use it from several goroutines.
type Fence struct {
	// Resource names what is protected: any non-empty string of at most
	// MaxResource bytes, compared byte for byte.
	Resource string
	// ID orders the tenures of one resource: a later tenure has a greater ID.
	// It is positive. IDs are neither dense nor a count.
	ID int64
	// Holder tells two tenures with an equal ID apart, which happens when a
	// lock service loses its data. It is a secret: whoever knows it can write
	// as the holder. It has 1 to MaxHolder bytes; see NewHolder.
	Holder string
}

// NewHolder returns a fresh holder: 128 bits from the operating system's
// generator, in lower-case hexadecimal. Take a new one for every tenure; names
// made of a host, a process ID or a start time repeat.
func NewHolder() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// Validate reports what is wrong with f as an *[InvalidFenceError], nil when
// f is a fence that a store may be shown.
func (f Fence) Validate() error {
	if err := ValidateResource(f.Resource); err != nil {
		return err
	}
	switch {
	case f.ID <= 0:
		return &InvalidFenceError{Field: "ID", Reason: "must be positive"}
	case f.Holder == "":
		return &InvalidFenceError{Field: "Holder", Reason: "is empty"}
	case len(f.Holder) > MaxHolder:
		return &InvalidFenceError{Field: "Holder", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(f.Holder), MaxHolder)}
	}
	return nil
}

// ValidateResource reports what is wrong with a resource name as an
// *[InvalidFenceError], nil when nothing is.
func ValidateResource(resource string) error {
	switch {
	case resource == "":
		return &InvalidFenceError{Field: "Resource", Reason: "is empty"}
	case len(resource) > MaxResource:
		return &InvalidFenceError{Field: "Resource", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(resource), MaxResource)}
	}
	return nil
}

// Time tells when the tenure began, by the clock of the client that acquired
// it, for IDs made from microseconds since 1970 as package fencedlock makes
// them. It is for people reading logs. Never compare two fences by it: IDs may
// run ahead of the clock.
func (f Fence) Time() time.Time { return time.UnixMicro(f.ID) }

// LogValue implements [slog.LogValuer]. The holder is left out.
func (f Fence) LogValue() slog.Value {
	return slog.GroupValue(slog.String("resource", f.Resource), slog.Int64("id", f.ID))
}

// Format implements [fmt.Formatter]: every verb prints
// fence 42 on "invoices", without the holder, so that a fence in a log line or
// an error text gives no secret away. Only [Fence.String] and
// [Fence.MarshalText] carry the holder.
func (f Fence) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "fence %d on %q", f.ID, f.Resource)
}
