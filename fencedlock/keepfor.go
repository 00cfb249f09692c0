package fencedlock

import "time"

// part makes c what ends the lock in Redis: a release, or, before KeepFor has
// passed, what lets it stand until then.
func (k *Lock) part(c *call) {
	c.op = opRelease
	if left := k.keepLeft(); left > 0 {
		c.op, c.ttl = opKeep, int64((left+time.Millisecond-1)/time.Millisecond)
	}
}

// keepLeft is for how long the resource is to stay locked after the holder is
// done.
func (k *Lock) keepLeft() time.Duration {
	if k.terms.keepFor == 0 {
		return 0
	}
	return k.terms.keepFor - (k.l.now().mono - k.since.mono)
}
