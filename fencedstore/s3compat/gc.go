package s3compat

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fenced-go/fenced/fencedstore"
)

// Collected is what a [Store.GC] has removed.
type Collected struct {
	// Objects and Bytes are data that nothing refers to.
	Objects int
	Bytes   int64
	// Uploads are multipart uploads that were begun and not completed.
	Uploads int
	// Waiting is garbage that is younger than the grace period.
	Waiting int
}

// GC removes data of f's resource that no key refers to and that nobody can
// refer to any more: data whose last key was put anew or deleted, and what
// holders of older fences have uploaded and not committed. Either is left for
// Options.Grace, for readers. Data of f's own tenure that was uploaded and not
// committed stays, since one of its writers may be about to commit it.
//
// Any holder may collect, at any time. When GC fails, the counts tell what it
// had removed by then, and the next one goes on.
func (s *Store) GC(ctx context.Context, f fencedstore.Fence) (Collected, error) {
	const op = "gc"
	if err := begun(ctx, f); err != nil {
		return Collected{}, s.failed(op, f, err)
	}
	g := &collector{s: s, f: f, folder: s.folder(f.Resource), limit: s.now().Add(-s.opts.Grace), settled: map[string]bool{}}
	err := g.run(ctx)
	return g.got, s.failed(op, f, err)
}

// collector is one GC.
type collector struct {
	s       *Store
	f       fencedstore.Fence
	folder  string
	limit   time.Time // what is younger stays
	env     *envelope
	settled map[string]bool // dropped data by name: whether it is old enough
	removed []string        // dropped data that is gone
	got     Collected
}

func (g *collector) run(ctx context.Context) error {
	st, err := g.s.read(ctx, g.f.Resource)
	if err != nil {
		return withCause(ctx, err)
	}
	if st, err = g.s.ready(ctx, g.f, st); err != nil {
		return withCause(ctx, err)
	}
	g.env = st.env
	for _, d := range g.env.Dropped {
		at, err := time.Parse(time.RFC3339Nano, d.At)
		g.settled[d.Data] = err == nil && at.Before(g.limit)
	}
	if err := errors.Join(g.objects(ctx), g.uploads(ctx)); err != nil {
		return withCause(ctx, err)
	}
	return g.forget(ctx)
}

// objects removes the garbage among the data objects.
func (g *collector) objects(ctx context.Context) error {
	in := &s3.ListObjectsV2Input{Bucket: &g.s.bucket, Prefix: aws.String(g.folder + "d/")}
	listed := map[string]bool{}
	for {
		page, err := g.s.api.ListObjectsV2(ctx, in, g.s.tune)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), g.folder)
			listed[name] = true
			if err := g.object(ctx, name, o); err != nil {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			break
		}
		in.ContinuationToken = page.NextContinuationToken
	}
	for name, old := range g.settled {
		if old && !listed[name] {
			g.removed = append(g.removed, name) // by a GC that could not finish
		}
	}
	return nil
}

func (g *collector) object(ctx context.Context, name string, o types.Object) error {
	old, dropped := g.settled[name]
	if !dropped {
		// Never referred to. Only of older tenures it is certain that it never
		// will be.
		if df := dataFence(name); df == 0 || df >= g.f.ID || g.env.refers(name) {
			return nil
		}
		old = o.LastModified != nil && o.LastModified.Before(g.limit)
	}
	if !old {
		g.got.Waiting++
		return nil
	}
	if err := g.s.deleteObject(ctx, g.folder+name); err != nil {
		return err
	}
	g.got.Objects++
	g.got.Bytes += aws.ToInt64(o.Size)
	if dropped {
		g.removed = append(g.removed, name)
	}
	return nil
}

// uploads aborts what older tenures left half-uploaded.
func (g *collector) uploads(ctx context.Context) error {
	in := &s3.ListMultipartUploadsInput{Bucket: &g.s.bucket, Prefix: aws.String(g.folder + "d/")}
	for {
		page, err := g.s.api.ListMultipartUploads(ctx, in, g.s.tune)
		if isGone(err) {
			return nil // what some stores say when there are none
		}
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if err := g.upload(ctx, u); err != nil {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextKeyMarker) == "" {
			return nil
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}

func (g *collector) upload(ctx context.Context, u types.MultipartUpload) error {
	name, ok := strings.CutPrefix(aws.ToString(u.Key), g.folder)
	if df := dataFence(name); !ok || df == 0 || df >= g.f.ID {
		return nil
	}
	if u.Initiated == nil || !u.Initiated.Before(g.limit) {
		g.got.Waiting++
		return nil
	}
	_, err := g.s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &g.s.bucket, Key: u.Key, UploadId: u.UploadId,
	}, g.s.tune)
	if err != nil && !isGone(err) {
		return err
	}
	g.got.Uploads++
	return nil
}

// forget takes what is gone off the register's list.
func (g *collector) forget(ctx context.Context) error {
	if len(g.removed) == 0 {
		return nil
	}
	removed := map[string]bool{}
	for _, name := range g.removed {
		removed[name] = true
	}
	return g.s.commit(ctx, "gc", g.f, []change{func(next *envelope) error {
		next.forget(removed)
		return nil
	}})
}
