package fencedlock

import (
	_ "embed"
	"math"
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
	//go:embed grant.lua
	grantLua string
	//go:embed force.lua
	forceLua string
	//go:embed inspect.lua
	inspectLua string
	//go:embed keep.lua
	keepLua string
	//go:embed why.lua
	whyLua string
	//go:embed below.lua
	belowLua string
	//go:embed propose.lua
	proposeLua string
	//go:embed withdraw.lua
	withdrawLua string
	//go:embed mend.lua
	mendLua string
)

// script is a Lua script with the arguments that name it, boxed once.
type script struct {
	sha, text any
}

func newScript(text string) script {
	text = strings.Replace(text, "-- include grant.lua\n", grantLua, 1)
	text = strings.Replace(text, "-- include below.lua\n", belowLua, 1)
	return script{sha: redis.NewScript(text).Hash(), text: text}
}

var scripts = [...]script{
	opAcquire: newScript(acquireLua),
	opRenew:   newScript(renewLua),
	opRelease: newScript(releaseLua),
	opForce:   newScript(forceLua),
	opInspect: newScript(inspectLua),
	opKeep:    newScript(keepLua),
	opWhy:     newScript(whyLua),

	opPropose:  newScript(proposeLua),
	opWithdraw: newScript(withdrawLua),
	opMend:     newScript(mendLua),
}

var (
	oneKey    any = 1
	twoKeys   any = 2
	threeKeys any = 3
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
		a = append(a, threeKeys, &c.keys.lock, &c.keys.counter, &c.keys.queue, &c.holder, &c.label, &c.ttl, &c.proposal, &c.least)
		if c.waits {
			a = append(a, &c.waker)
		}
		return a
	case opRenew:
		return append(a, oneKey, &c.keys.lock, &c.value, &c.ttl)
	case opWhy:
		return append(a, oneKey, &c.forced, &c.value)
	case opForce:
		return append(a, twoKeys, &c.keys.lock, &c.forced, &c.holder, &c.label, &c.ttl, &c.fence)
	case opInspect:
		return append(a, threeKeys, &c.keys.lock, &c.keys.counter, &c.keys.queue)
	case opKeep:
		return append(a, oneKey, &c.keys.lock, &c.holder, &c.ttl)
	case opPropose:
		return append(a, twoKeys, &c.keys.lock, &c.keys.counter, &c.holder, &c.label, &c.ttl, &c.proposal, &c.newest)
	case opWithdraw:
		return append(a, oneKey, &c.keys.lock, &c.holder, &c.newest)
	case opMend:
		return append(a, twoKeys, &c.keys.lock, &c.keys.counter, &c.value, &c.ttl, &c.newest)
	default:
		a = append(a, threeKeys, &c.keys.lock, &c.keys.counter, &c.keys.queue, &c.holder, &c.proposal)
		if c.waits {
			c.entry = c.holder + ":" + c.waker + ":" + strconv.FormatInt(c.ttl, 10) + ":" + c.label
			a = append(a, &c.entry)
		}
		return a
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
	case opPropose:
		ok = c.decodePropose(word, rest)
	case opRenew, opMend:
		ok = c.decodeWord(reply, renewed)
	case opRelease, opKeep, opWithdraw:
		ok = c.decodeWord(reply, released)
	case opWhy:
		ok = c.decodeWord(reply, forced)
	case opForce:
		ok = c.decodeWord(reply, 0) || c.decodeAcquire(word, rest)
	case opInspect:
		ok = c.decodeStatus(word, rest)
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
	case reply == "forced" && success == forced:
		c.answer.verdict = forced
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
		return c.answer.decodeGrant(rest)
	case "held":
		return c.decodeHeld(held, rest)
	case "queued":
		return c.waits && c.decodeHeld(queued, rest)
	case "broken":
		c.err = c.broken(rest)
		return c.err != nil
	}
	return false
}

// decodePropose reads what a node says to a proposal: a grant of no other fence.
func (c *call) decodePropose(word, rest string) bool {
	if word != "behind" {
		return c.decodeAcquire(word, rest) && (c.err != nil || c.answer.verdict != granted || c.answer.fence == c.proposal)
	}
	id, err := fencedstore.ParseID(rest)
	c.answer = answer{verdict: behind, fence: id}
	return err == nil
}

// maxSpare bounds the fences that a grant may bring along.
const maxSpare = 1000

// decodeGrant reads <fence> [<spare>].
func (a *answer) decodeGrant(text string) bool {
	text, rest, more := strings.Cut(text, " ")
	id, err := fencedstore.ParseID(text)
	spare := 0
	if more && err == nil {
		spare, err = strconv.Atoi(rest)
	}
	if err != nil || spare < 0 || spare > maxSpare || id > math.MaxInt64-maxSpare {
		return false
	}
	*a = answer{verdict: granted, fence: id, spare: spare}
	return true
}

func (c *call) decodeHeld(v verdict, rest string) bool {
	fence, rest, ok1 := strings.Cut(rest, " ")
	left, rest, ok2 := strings.Cut(rest, " ")
	place := 0
	if v == queued {
		text, label, ok := strings.Cut(rest, " ")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 0 {
			return false
		}
		place, rest = n, label
	}
	id, err1 := fencedstore.ParseID(fence)
	ms, err2 := strconv.ParseInt(left, 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || ms < -1 || ms > int64(maxForeignTTL/time.Millisecond) {
		return false
	}
	c.answer = answer{verdict: v, fence: id, ttl: time.Duration(ms) * time.Millisecond, label: rest, place: place}
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
