package s3compat

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fenced-go/fenced/fencedstore"
)

// maxSegment keeps a resource's folder below the 255 bytes that file systems
// allow, and the whole key below the 1024 of S3.
const maxSegment = 200

// folder is where a resource is kept, below the prefix, with a slash at its
// end.
func (s *Store) folder(resource string) string {
	return s.opts.Prefix + "/" + segment(resource) + "/"
}

func (s *Store) registerKey(resource string) string { return s.folder(resource) + "register" }

// segment is a resource's name as one path segment. A long name is cut and
// ends in a hash of the whole; "~" separates them and is escaped elsewhere.
func segment(resource string) string {
	name := escape(resource)
	if len(name) <= maxSegment {
		return name
	}
	sum := sha256.Sum256([]byte(resource))
	return name[:100] + "~" + hex.EncodeToString(sum[:])
}

// escape writes every byte but letters, digits, "-", "_" and inner dots as
// %XX, so that no name is a path, hidden, or equal to another.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// dataName is a name for new data, below the resource's folder. No two are
// equal: an object under it is written once.
func dataName(fenceID, seq int64) string {
	return fmt.Sprintf("d/%020d/%012d-%s", fenceID, seq, rand.Text())
}

// dataFence is the fence ID in a data name, 0 when it is none.
func dataFence(name string) int64 {
	rest, ok := strings.CutPrefix(name, "d/")
	if !ok {
		return 0
	}
	digits, id, ok := strings.Cut(rest, "/")
	if !ok || len(digits) != 20 || id == "" || strings.Contains(id, "/") {
		return 0
	}
	fence, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || fence < 1 {
		return 0
	}
	return fence
}

// hashed is a holder as it is stored: whoever reads the register cannot write
// as the holder.
func hashed(f fencedstore.Fence) string {
	sum := sha256.Sum256([]byte(f.Holder))
	return hex.EncodeToString(sum[:])
}

func validateKey(key string) error {
	switch {
	case key == "":
		return &KeyError{Reason: "is empty"}
	case len(key) > MaxKey:
		return &KeyError{Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(key), MaxKey)}
	case !utf8.ValidString(key):
		return &KeyError{Reason: "is not UTF-8"}
	}
	return nil
}
