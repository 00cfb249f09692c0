package fencedlock

import (
	"fmt"
	"log/slog"
)

// A Lock and a Locker hold what must not get into a log: holders, and through
// the client the password of Redis. Package fmt prints unexported fields
// without asking their types, so that the outermost type has to stop it.

// String names the lock's tenure, without its holder.
func (k *Lock) String() string { return fmt.Sprintf("lock with %v", k.fence) }

// Format implements [fmt.Formatter]: every verb prints what String returns.
func (k *Lock) Format(s fmt.State, _ rune) {
	if k == nil {
		_, _ = s.Write([]byte("<nil>"))
		return
	}
	_, _ = s.Write([]byte(k.String()))
}

// LogValue implements [slog.LogValuer].
func (k *Lock) LogValue() slog.Value {
	if k == nil {
		return slog.Value{}
	}
	return slog.GroupValue(slog.Any("fence", k.fence), slog.String("label", k.terms.label))
}

// String names the Locker by its prefix.
func (l *Locker) String() string { return fmt.Sprintf("locker of %q", l.opts.Prefix) }

// Format implements [fmt.Formatter]: every verb prints what String returns.
func (l *Locker) Format(s fmt.State, _ rune) {
	if l == nil {
		_, _ = s.Write([]byte("<nil>"))
		return
	}
	_, _ = s.Write([]byte(l.String()))
}

// LogValue implements [slog.LogValuer].
func (l *Locker) LogValue() slog.Value {
	if l == nil {
		return slog.Value{}
	}
	return slog.GroupValue(slog.String("prefix", l.opts.Prefix), slog.String("label", l.opts.Label))
}
