package fencedlock

import "strings"

// keys are the names of one resource in Redis. The braces put all of them
// into one Cluster slot.
type keys struct {
	lock, counter string
}

var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// newKeys makes <prefix>{<resource>}:lock and :fence. Percent signs and braces
// in the resource are escaped, so that the braces around it are the only ones
// and two resources never share a key.
func newKeys(prefix, resource string) keys {
	if strings.ContainsAny(resource, "%{}") {
		resource = tagEscaper.Replace(resource)
	}
	both := prefix + "{" + resource + "}:lock" + prefix + "{" + resource + "}:fence" // one allocation
	n := len(prefix) + len(resource) + len("{}:lock")
	return keys{lock: both[:n], counter: both[n:]}
}
