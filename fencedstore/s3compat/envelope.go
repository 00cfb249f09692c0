package s3compat

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// The versions of the register's format: see docs/s3-layout.md.
const (
	// formatInline has the entries in the register itself.
	formatInline = 1
	// formatSpilled has them in an object of their own. It is written only for
	// a resource that needs it, so that older releases read the others.
	formatSpilled = 2
	// formatVersion is the greatest that this package reads.
	formatVersion = formatSpilled
)

// magic begins a register; version and checksum follow on the same line.
const magic = "fenced-register"

const (
	// maxHistory is how many write IDs before the current one a register
	// remembers: so many commits of others may pass until the outcome of a
	// write cannot be found out any more.
	maxHistory = 64
	// maxDropped is how much data that lost its last reference is remembered;
	// what falls off is found by listing.
	maxDropped = 256
)

// envelope is a decoded register. It is not changed once it is shared.
type envelope struct {
	Resource string `json:"resource"` // escaped
	Fence    int64  `json:"fence,string"`
	Holder   string `json:"holder"` // SHA-256, hex
	Seq      int64  `json:"seq,string"`
	Write    string `json:"write"` // ID of the write that made this version
	At       string `json:"at"`
	// History holds the IDs of the writes before, oldest first and without
	// gaps: the last one made version Seq-1.
	History []string `json:"history"`
	// Entries are the values by key. With a Manifest they are in it, and nil
	// here until they were loaded.
	Entries  map[string]*entry `json:"entries,omitzero"`
	Manifest *manifest         `json:"manifest,omitempty"`
	Dropped  []dropped         `json:"dropped,omitempty"`
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// next is the version that f writes after e, with nothing else changed; e is
// nil when there is no register.
func (e *envelope) next(f fencedstore.Fence, now time.Time) *envelope {
	n := &envelope{
		Resource: escape(f.Resource), Fence: f.ID, Holder: hashed(f), Seq: 1,
		Write: rand.Text(), At: timestamp(now), History: []string{}, Entries: map[string]*entry{},
	}
	if e == nil {
		return n
	}
	n.Seq = e.Seq + 1
	n.History = append(slices.Clone(e.History), e.Write)
	n.History = n.History[max(0, len(n.History)-maxHistory):]
	n.Entries, n.Manifest, n.Dropped = maps.Clone(e.Entries), e.Manifest, slices.Clone(e.Dropped)
	return n
}

// writeAt is the ID of the write that made version seq, and false when the
// history does not go back that far.
func (e *envelope) writeAt(seq int64) (string, bool) {
	if seq == e.Seq {
		return e.Write, true
	}
	i := int64(len(e.History)) - (e.Seq - seq)
	if seq > e.Seq || i < 0 {
		return "", false
	}
	return e.History[i], true
}

// encode returns the bytes of the register.
func (e *envelope) encode() ([]byte, error) {
	out, version := *e, formatInline
	var payload []byte
	if e.Manifest == nil {
		out.Entries, payload = packed(e.Entries)
	} else {
		out.Entries, version = nil, formatSpilled
	}
	b, err := jsonLine(&out)
	if err != nil {
		return nil, err
	}
	b = append(b, payload...)
	head := fmt.Sprintf("%s %d sha256=%x\n", magic, version, sha256.Sum256(b))
	if len(head)+len(b) > MaxRegister {
		return nil, fmt.Errorf("%w: the register would have %d bytes, at most %d are allowed", ErrTooLarge, len(head)+len(b), MaxRegister)
	}
	return append([]byte(head), b...), nil
}

// jsonLine is v as JSON, with a line feed at its end.
func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// decode reads a register and checks all that can be checked without the store.
func decode(b []byte) (*envelope, error) {
	head, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, corrupt("it has no first line")
	}
	version, sum, err := parseHead(string(head))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(rest); hex.EncodeToString(got[:]) != sum {
		return nil, corrupt("its checksum does not match")
	}
	line, payload, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return nil, corrupt("it has no second line")
	}
	e := new(envelope)
	if err := json.Unmarshal(line, e); err != nil {
		return nil, corrupt("its second line is not JSON of a register")
	}
	if (e.Manifest != nil) != (version == formatSpilled) {
		return nil, corrupt("its version is not that of its content")
	}
	if err := e.check(payload); err != nil {
		return nil, err
	}
	return e, nil
}

func parseHead(head string) (version int, sum string, err error) {
	fields := strings.Split(head, " ")
	if fields[0] != magic || len(fields) < 2 {
		return 0, "", corrupt("it does not begin with " + magic)
	}
	version, err = strconv.Atoi(fields[1])
	switch {
	case err != nil || version < 1:
		return 0, "", corrupt("it has no version")
	case version > formatVersion:
		return 0, "", &VersionError{Version: version}
	}
	sum, ok := strings.CutPrefix(fields[len(fields)-1], "sha256=")
	if !ok || len(fields) != 3 {
		return 0, "", corrupt("it has no checksum")
	}
	return version, sum, nil
}

// check validates what was decoded, and cuts the inline values out of payload.
func (e *envelope) check(payload []byte) error {
	switch {
	case e.Fence < 1 || e.Seq < 1 || e.Holder == "" || e.Write == "" || e.Resource == "":
		return corrupt("a field is missing")
	case len(e.History) > maxHistory || int64(len(e.History)) >= e.Seq:
		return corrupt("its history is too long")
	}
	for _, d := range e.Dropped {
		if dataFence(d.Data) == 0 {
			return corrupt("dropped data has no name")
		}
	}
	if e.Manifest != nil {
		return e.checkSpilled(payload)
	}
	if e.Entries == nil {
		e.Entries = map[string]*entry{}
	}
	return checkEntries(e.Entries, e.Fence, payload)
}

// checkEntries validates entries, and cuts the inline values out of payload.
func checkEntries(entries map[string]*entry, fence int64, payload []byte) error {
	for key, en := range entries {
		if en == nil || validateKey(key) != nil {
			return corrupt("an entry is not valid")
		}
		if err := en.check(fence, payload); err != nil {
			return err
		}
	}
	return nil
}

// inlineSize is the size of all inline values.
func (e *envelope) inlineSize() int64 {
	var n int64
	for _, en := range e.Entries {
		if en.inline() {
			n += en.Size
		}
	}
	return n
}

// set puts key to en, or removes it when en is nil. Data that loses its last
// reference is remembered for GC.
func (e *envelope) set(key string, en *entry) {
	if e.Manifest != nil { // it tells of other entries from now on
		e.drop(e.Manifest.Data)
		e.Manifest = nil
	}
	old := e.Entries[key]
	if en == nil {
		delete(e.Entries, key)
	} else {
		e.Entries[key] = en
	}
	if old == nil || old.inline() || e.refers(old.Data) {
		return
	}
	e.drop(old.Data)
}
