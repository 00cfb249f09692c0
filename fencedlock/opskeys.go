package fencedlock

import "strings"

var tagUnescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// forcedKey is the name of the mark of a forced release, beside the lock.
func forcedKey(lock string) string { return strings.TrimSuffix(lock, "lock") + "forced" }

// lockPattern is a glob that matches the lock keys of the resources that begin
// with start.
func lockPattern(prefix, start string) string {
	return globEscaper.Replace(prefix+"{"+tagEscaper.Replace(start)) + "*}:lock"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// resourceOf is the resource that a lock key is for.
func resourceOf(prefix, key string) (string, bool) {
	name, ok := strings.CutPrefix(key, prefix+"{")
	name, ok2 := strings.CutSuffix(name, "}:lock")
	return tagUnescaper.Replace(name), ok && ok2
}
