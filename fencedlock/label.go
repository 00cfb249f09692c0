package fencedlock

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// defaultLabel is host/pid, in characters that a label may have.
var defaultLabel = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, host)
	pid := "/" + strconv.Itoa(os.Getpid())
	for len(host)+len(pid) > MaxLabel {
		host = host[:strings.LastIndexFunc(host, func(rune) bool { return true })]
	}
	return host + pid
})
