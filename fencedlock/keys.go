package fencedlock

import "strings"

// keys are the names of one resource in Redis. The braces put all of them
// into one Cluster slot.
type keys struct {
	lock, counter, queue string
}

var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// newKeys makes <prefix>{<resource>}:lock, :fence and :queue. Percent signs and braces
// in the resource are escaped, so that the braces around it are the only ones
// and two resources never share a key.
func newKeys(prefix, resource string) keys {
	if strings.ContainsAny(resource, "%{}") {
		resource = tagEscaper.Replace(resource)
	}
	// one allocation
	all := prefix + "{" + resource + "}:lock" + prefix + "{" + resource + "}:fence" + prefix + "{" + resource + "}:queue"
	n := len(prefix) + len(resource) + len("{}:lock")
	m := n + len(prefix) + len(resource) + len("{}:fence")
	return keys{lock: all[:n], counter: all[n:m], queue: all[m:]}
}
