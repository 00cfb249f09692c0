package fencedlock

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	// checkResource begins the names that Check locks to try its rights.
	checkResource = "fencedlock.check"
	// checkNames is how many names are tried to find one on every server.
	checkNames = 10_000
)

// resourceOn is a resource for each of nodes that is locked there. One for which
// none was found is left out.
func (b *redisBackend) resourceOn(ctx context.Context, nodes []redis.UniversalClient, prefix string) map[redis.UniversalClient]string {
	found := make(map[redis.UniversalClient]string, len(nodes))
	if len(nodes) == 1 {
		found[nodes[0]] = checkResource
		return found
	}
	byAddr := make(map[string]redis.UniversalClient, len(nodes))
	for _, n := range nodes {
		byAddr[addrOf(n)] = n
	}
	for i := 0; i < checkNames && len(found) < len(nodes); i++ {
		resource := checkResource
		if i > 0 {
			resource += "." + strconv.Itoa(i)
		}
		on, err := b.nodeOf(ctx, newKeys(prefix, resource).lock)
		if err != nil {
			return found
		}
		if n := byAddr[addrOf(on)]; n != nil && found[n] == "" {
			found[n] = resource
		}
	}
	return found
}

// addrOf is the address of one server, empty when it is not known.
func addrOf(node redis.UniversalClient) string {
	if c, ok := node.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

// checkRights does what a holder does, with a lock of its own. No store hears of
// it.
func (l *Locker) checkRights(ctx context.Context, r *Report, resource, node string) error {
	err := l.tryRights(ctx, resource)
	switch {
	case err == nil || errors.Is(err, ErrHeld) || errors.Is(err, ErrLost):
		return nil // somebody else checks at the same time
	case errors.Is(err, ErrConfig), errors.Is(err, ErrUnexpectedReply):
		r.add(Critical, "rights", node, strings.TrimPrefix(err.Error(), "fencedlock: "), "see docs/operations.md for the rights that are needed")
		return nil
	case errors.Is(err, ErrNotReplicated):
		r.add(Warning, "replicas", node, strings.TrimPrefix(err.Error(), "fencedlock: "), "connect the replicas that Options.Durability asks for")
		return nil
	}
	return err
}

func (l *Locker) tryRights(ctx context.Context, resource string) error {
	k, err := l.prepare(ctx, resource, nil)
	if err != nil {
		return err
	}
	k.terms.stores = nil
	held, err := l.obtain(ctx, k)
	if err != nil {
		return err
	}
	if held != nil {
		return held
	}
	if err := k.Renew(ctx); err != nil {
		return errors.Join(err, k.Release(ctx))
	}
	return k.Release(ctx)
}
