package fencedlock

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenced-go/fenced/fencedstore"
)

// Defaults and limits of [Options].
const (
	DefaultTTL    = 30 * time.Second
	DefaultPrefix = "fenced:"
	MinTTL        = 10 * time.Millisecond
	MaxTTL        = 24 * time.Hour
	MaxLabel      = 128 // bytes
	maxPrefix     = 128
)

// Options configure a [Locker]. A nil *Options and every zero field mean the
// default; a value that cannot be used is refused by [New], never adjusted.
type Options struct {
	// TTL is the lease: how long a lock outlives a holder that vanished. It is
	// from MinTTL to MaxTTL; fractions of a millisecond are cut off. The
	// default is DefaultTTL. It says nothing about how long a lock can be held.
	TTL time.Duration
	// RenewEvery is how often a held lock is renewed. It must leave time for
	// the answer within the TTL. The default is a third of the TTL.
	RenewEvery time.Duration
	// MaxHold is after how long a lock is given up whatever its holder does.
	// The default is never.
	MaxHold time.Duration
	// Prefix begins every key and channel in Redis; end it with a delimiter.
	// It has at most 128 bytes, none of them a brace. The default is
	// DefaultPrefix.
	Prefix string
	// Label is what this holder calls itself to others: at most MaxLabel bytes
	// of printable text. The default is host/pid.
	Label string
	// Stores are told of every new tenure before its holder learns of it, in
	// parallel. The default is none: then claim for yourself, or nothing is
	// protected.
	Stores []fencedstore.Claimer
	// Unfair has waiters ask at random instants instead of queueing: nobody is
	// granted a lock in their absence, and anybody may overtake anybody. The
	// default is a queue, first come, first served.
	Unfair bool
	// Durability is where a new lock has to be kept before Acquire returns it.
	// The default is the memory of the primary.
	Durability Durability
	// Lossy is for [NewQuorum]: how many of its nodes may have come back empty
	// since a lock was acquired, without fences repeating. It raises the majority
	// of N nodes to (N+Lossy+1)/2, rounded up, and lets a restarted node vote at
	// once. The default, 0, has a node that restarted wait instead.
	Lossy int
	// NodesPersist is for [NewQuorum]: every node keeps what it has acknowledged
	// over a restart (appendonly yes, appendfsync always), so that it may vote at
	// once. The default is that this is not relied on: a node that restarted does
	// not vote for the TTL, or a second if that is longer, and two seconds more.
	NodesPersist bool
	// Strict is the severity from which on findings of [Locker.Check] are an
	// error. The default is that they never are.
	Strict Severity
	// Hooks observe. The default is none.
	Hooks *Hooks
	// Logger gets a line for every event that Hooks get, with the fence, the label
	// and the values of the context of the acquire: a warning for what may need
	// somebody, the rest at debug level. Holders are not in it. The default
	// discards it.
	Logger *slog.Logger
}

// AcquireOptions are for one call. A nil *AcquireOptions and every zero field
// mean what [Options] say.
type AcquireOptions struct {
	// TTL is the lease, as in Options. In a quorum it is at most that of Options,
	// unless Options.Lossy or Options.NodesPersist is set.
	TTL time.Duration
	// Label is what this holder calls itself.
	Label string
	// KeepFor is how long the resource stays locked at least, counted from the
	// acquisition: a release that comes sooner leaves it locked until then. It
	// is for jobs that several hosts start at the same time, by clocks that
	// differ. It holds after Close as well, but a holder that vanishes keeps the
	// lock for its TTL. The default is not at all.
	KeepFor time.Duration
	// Stores replace those of Options; to have none, pass an empty slice.
	Stores []fencedstore.Claimer
}

// terms are the options of one acquisition, checked and complete.
type terms struct {
	ttl, renewEvery time.Duration
	keepFor         time.Duration
	label           string
	stores          []fencedstore.Claimer
}

// complete returns o with defaults filled in, or what is wrong with it.
func (o *Options) complete() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Label == "" {
		c.Label = defaultLabel()
	}
	if c.Hooks == nil {
		c.Hooks = &Hooks{}
	}
	hooks := *c.Hooks
	c.Hooks, c.Stores = &hooks, slices.Clone(c.Stores)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.TTL = c.TTL.Truncate(time.Millisecond)
	return c, c.validate()
}

func (o *Options) validate() error {
	if err := checkTTL("Options.TTL", o.TTL); err != nil {
		return err
	}
	if err := checkRenewEvery(o.RenewEvery, o.TTL); err != nil {
		return err
	}
	if o.MaxHold < 0 {
		return &ArgumentError{Name: "Options.MaxHold", Reason: "must not be negative"}
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return &ArgumentError{Name: "Options.Prefix", Reason: "must not contain a brace"}
	}
	if len(o.Prefix) > maxPrefix {
		return &ArgumentError{Name: "Options.Prefix", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(o.Prefix), maxPrefix)}
	}
	if err := checkLabel("Options.Label", o.Label); err != nil {
		return err
	}
	return checkStores("Options.Stores", o.Stores)
}

// terms merges the options of one call into those of the Locker.
func (o *Options) terms(a *AcquireOptions) (terms, error) {
	t := terms{ttl: o.TTL, renewEvery: o.RenewEvery, label: o.Label, stores: o.Stores}
	if a != nil {
		if err := t.merge(a); err != nil {
			return terms{}, err
		}
	}
	if t.renewEvery == 0 {
		t.renewEvery = t.ttl / 3
	}
	return t, nil
}

func (t *terms) merge(a *AcquireOptions) error {
	if a.TTL != 0 {
		t.ttl = a.TTL.Truncate(time.Millisecond)
		if err := checkTTL("AcquireOptions.TTL", t.ttl); err != nil {
			return err
		}
		if err := checkRenewEvery(t.renewEvery, t.ttl); err != nil {
			return err
		}
	}
	if a.KeepFor < 0 || a.KeepFor > MaxTTL {
		return &ArgumentError{Name: "AcquireOptions.KeepFor", Reason: fmt.Sprintf("is %v, it must be from 0 to %v", a.KeepFor, MaxTTL)}
	}
	t.keepFor = a.KeepFor
	if a.Label != "" {
		t.label = a.Label
		if err := checkLabel("AcquireOptions.Label", t.label); err != nil {
			return err
		}
	}
	if a.Stores != nil {
		t.stores = a.Stores
		return checkStores("AcquireOptions.Stores", t.stores)
	}
	return nil
}

func checkTTL(name string, ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return &ArgumentError{Name: name, Reason: fmt.Sprintf("is %v, it must be from %v to %v", ttl, MinTTL, MaxTTL)}
	}
	return nil
}

func checkRenewEvery(every, ttl time.Duration) error {
	if every < 0 || every > 0 && every < time.Millisecond {
		return &ArgumentError{Name: "Options.RenewEvery", Reason: "must be at least 1ms"}
	}
	if every >= ttl-margin(ttl) {
		return &ArgumentError{Name: "Options.RenewEvery", Reason: fmt.Sprintf("is %v, too late for a TTL of %v", every, ttl)}
	}
	return nil
}

func checkLabel(name, label string) error {
	if len(label) > MaxLabel {
		return &ArgumentError{Name: name, Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(label), MaxLabel)}
	}
	if !utf8.ValidString(label) || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &ArgumentError{Name: name, Reason: "must be printable text"}
	}
	return nil
}

func checkStores(name string, stores []fencedstore.Claimer) error {
	for i, s := range stores {
		if s == nil {
			return &ArgumentError{Name: fmt.Sprintf("%s[%d]", name, i), Reason: "is nil"}
		}
	}
	return nil
}
