package fencedlock

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedstore"
)

var (
	//go:embed acquire.lua
	acquireLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
)

// script is a Lua script with the arguments that name it, boxed once.
type script struct {
	sha, text any
}

func newScript(text string) script {
	return script{sha: redis.NewScript(text).Hash(), text: text}
}

var scripts = [...]script{
	opAcquire: newScript(acquireLua),
	opRenew:   newScript(renewLua),
	opRelease: newScript(releaseLua),
}

var (
	oneKey  any = 1
	twoKeys any = 2
)

// command writes the Redis command of c into its own room: pointers to the
// fields of c, which go-redis follows, in place of boxed copies. With source
// set it sends the script itself instead of its digest.
func (c *call) command(source bool) []any {
	s := &scripts[c.op]
	a := append(c.args[:0], "evalsha", s.sha)
	if source {
		a = append(c.args[:0], "eval", s.text)
	}
	switch c.op {
	case opAcquire:
		a = append(a, twoKeys, &c.keys.lock, &c.keys.counter, &c.holder, &c.label, &c.ttl, &c.proposal)
		if c.least > 0 {
			a = append(a, &c.least)
		}
		return a
	case opRenew:
		return append(a, oneKey, &c.keys.lock, &c.value, &c.ttl)
	default:
		return append(a, oneKey, &c.keys.lock, &c.holder)
	}
}

// decode reads the reply to c. Replies are words, so that no reply of another
// type can be mistaken for one.
func (c *call) decode(reply string) {
	word, rest, _ := strings.Cut(reply, " ")
	var ok bool
	switch c.op {
	case opAcquire:
		ok = c.decodeAcquire(word, rest)
	case opRenew:
		ok = c.decodeWord(reply, renewed)
	case opRelease:
		ok = c.decodeWord(reply, released)
	}
	if !ok {
		c.err = &ReplyError{Reply: describe(reply)}
	}
}

func (c *call) decodeWord(reply string, success verdict) bool {
	switch {
	case reply == "absent":
		c.answer.verdict = absent
	case reply == "taken":
		c.answer.verdict = taken
	case reply == "renewed" && success == renewed, reply == "released" && success == released:
		c.answer.verdict = success
	default:
		return false
	}
	return true
}

func (c *call) decodeAcquire(word, rest string) bool {
	switch word {
	case "granted":
		id, err := fencedstore.ParseID(rest)
		c.answer = answer{verdict: granted, fence: id}
		return err == nil
	case "held":
		return c.decodeHeld(rest)
	case "broken":
		c.err = c.broken(rest)
		return c.err != nil
	}
	return false
}

func (c *call) decodeHeld(rest string) bool {
	fence, rest, ok1 := strings.Cut(rest, " ")
	left, label, ok2 := strings.Cut(rest, " ")
	id, err1 := fencedstore.ParseID(fence)
	ms, err2 := strconv.ParseInt(left, 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || ms < -1 || ms > int64(maxForeignTTL/time.Millisecond) {
		return false
	}
	c.answer = answer{verdict: held, fence: id, ttl: time.Duration(ms) * time.Millisecond, label: label}
	return true
}

// maxForeignTTL is the longest time left that a reply may name: about a
// century, so that it fits a Duration.
const maxForeignTTL = 876_000 * time.Hour

func (c *call) broken(what string) error {
	switch what {
	case "lock":
		return &ConfigError{Need: "the key " + strconv.Quote(c.keys.lock) + " must hold a lock, it holds something else"}
	case "counter":
		return &ConfigError{Need: "the key " + strconv.Quote(c.keys.counter) + " must hold a fence ID below 2^62, it holds something else"}
	case "fence":
		return &ConfigError{Need: needFence}
	}
	return nil
}

const needFence = "the fence to issue must be below 2^62; a clock or a store is far ahead"

// describe quotes the start of a reply for an error text.
func describe(reply string) string {
	return strconv.Quote(reply[:min(len(reply), 60)])
}
