package s3compat

import (
	"fmt"
	"strings"
)

// Report is what [Open] found out about a store. Print it when a deployment is
// set up.
type Report struct {
	// Bucket and Key name the scratch object that was used.
	Bucket, Key string
	// Checks are the questions asked, in order, with the answers. The last one
	// is the first that failed.
	Checks []Check
	// Unquoted says that the store matches an ETag only without its quotes, and
	// is sent it so.
	Unquoted bool
	// UniqueETag says that two writes of equal bytes had different ETags. It
	// is not needed here.
	UniqueETag bool
	// Versioned says that the bucket keeps versions. Registers are written
	// often: let a lifecycle rule expire the versions that are not current.
	Versioned bool
	// PlainChecksums says that the endpoint is not AWS's own, so that only the
	// checksums that every store understands are sent and asked for.
	PlainChecksums bool
	// Requests is how many requests the probe took.
	Requests int
}

// Check is one question to a store.
type Check struct {
	// Name is the question as a sentence that should be true.
	Name string
	// OK says that it is.
	OK bool
	// Detail is what was seen.
	Detail string
}

// String is the report in several lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bucket %q, scratch key %q, %d requests\n", r.Bucket, r.Key, r.Requests)
	for _, c := range r.Checks {
		verdict := "ok  "
		if !c.OK {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", verdict, c.Name, c.Detail)
	}
	fmt.Fprintf(&b, "ETags sent without quotes: %t, unique per write: %t, versioned bucket: %t, plain checksums: %t\n",
		r.Unquoted, r.UniqueETag, r.Versioned, r.PlainChecksums)
	return b.String()
}
