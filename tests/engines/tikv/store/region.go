package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"sort"
	"time"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// replica is what this store knows of one region. What has a capital letter outlives the process.
type replica struct {
	Region *metapb.Region
	Term   uint64
	Voted  uint64 // the peer it gave its vote in this term
	Writes uint64

	leader   uint64 // a peer, or 0
	heard    time.Time
	patience float64 // of one to two election time-outs, so that not all stand at once
	stands   uint64  // the term in which it stands for leader just now
	seen     uint64  // the highest term that others have told of
	acked    map[uint64]time.Time
	told     time.Time // when PD last heard of it
	news     bool      // PD should hear of it now
	counted  time.Time // since when its flow is counted
	flow     flow
}

type flow struct{ bytes, keys uint64 }

func newReplica(region *metapb.Region) *replica {
	now := time.Now()
	return &replica{Region: region, heard: now, counted: now, patience: 1 + rand.Float64()}
}

func (r *replica) peerOn(store uint64) *metapb.Peer {
	for _, peer := range r.Region.GetPeers() {
		if peer.GetStoreId() == store {
			return peer
		}
	}
	return nil
}

func (r *replica) peer(id uint64) *metapb.Peer {
	for _, peer := range r.Region.GetPeers() {
		if peer.GetId() == id {
			return peer
		}
	}
	return nil
}

func votesNow(role metapb.PeerRole) bool {
	return role == metapb.PeerRole_Voter || role == metapb.PeerRole_DemotingVoter
}

func votesNext(role metapb.PeerRole) bool {
	return role == metapb.PeerRole_Voter || role == metapb.PeerRole_IncomingVoter
}

// majority: of the voters, and in the middle of a change of those before and of those after.
func (r *replica) majority(agrees func(*metapb.Peer) bool) bool {
	for _, votes := range []func(metapb.PeerRole) bool{votesNow, votesNext} {
		all, yes := 0, 0
		for _, peer := range r.Region.GetPeers() {
			if votes(peer.GetRole()) {
				all++
				if agrees(peer) {
					yes++
				}
			}
		}
		if yes*2 <= all {
			return false
		}
	}
	return true
}

// older says whether what is known of a region was overtaken by other news of it.
func older(a, b *metapb.RegionEpoch) bool {
	return a.GetVersion() < b.GetVersion() || a.GetConfVer() < b.GetConfVer()
}

func same(a, b *metapb.RegionEpoch) bool {
	return a.GetVersion() == b.GetVersion() && a.GetConfVer() == b.GetConfVer()
}

func copied(region *metapb.Region) *metapb.Region {
	found := *region
	epoch := *region.GetRegionEpoch()
	found.RegionEpoch = &epoch
	found.Peers = nil
	for _, peer := range region.GetPeers() {
		one := *peer
		found.Peers = append(found.Peers, &one)
	}
	return &found
}

// changed is the region after changes of its peers, counted as TiKV counts them: one change is made
// at once, several by way of a joint state, which an empty list of changes leaves again.
func changed(region *metapb.Region, changes []*pdpb.ChangePeer) (*metapb.Region, error) {
	next := copied(region)
	switch len(changes) {
	case 0:
		left := uint64(0)
		for _, peer := range next.Peers {
			switch peer.Role {
			case metapb.PeerRole_IncomingVoter:
				peer.Role = metapb.PeerRole_Voter
				left++
			case metapb.PeerRole_DemotingVoter:
				peer.Role = metapb.PeerRole_Learner
				left++
			}
		}
		if left == 0 {
			return nil, fmt.Errorf("region %d is in no joint state", region.GetId())
		}
		next.RegionEpoch.ConfVer += left
	default:
		for _, change := range changes {
			if err := changeOne(next, change, len(changes) > 1); err != nil {
				return nil, err
			}
		}
		next.RegionEpoch.ConfVer += uint64(len(changes))
	}
	return next, nil
}

func changeOne(region *metapb.Region, change *pdpb.ChangePeer, joint bool) error {
	wanted := change.GetPeer()
	at := -1
	for i, peer := range region.Peers {
		if peer.GetStoreId() == wanted.GetStoreId() {
			at = i
		}
	}
	if at >= 0 && region.Peers[at].GetId() != wanted.GetId() {
		return fmt.Errorf("another peer of region %d is there", region.GetId())
	}
	kind := change.GetChangeType()
	if kind == eraftpb.ConfChangeType_RemoveNode {
		if at < 0 {
			return fmt.Errorf("region %d has no peer %d", region.GetId(), wanted.GetId())
		}
		region.Peers = append(region.Peers[:at], region.Peers[at+1:]...)
		return nil
	}
	if at < 0 {
		region.Peers = append(region.Peers, &metapb.Peer{
			Id: wanted.GetId(), StoreId: wanted.GetStoreId(), Role: metapb.PeerRole_Learner})
		at = len(region.Peers) - 1
		if kind == eraftpb.ConfChangeType_AddLearnerNode {
			return nil
		}
	}
	region.Peers[at].Role = after(region.Peers[at].GetRole(), kind, joint)
	return nil
}

func after(role metapb.PeerRole, kind eraftpb.ConfChangeType, joint bool) metapb.PeerRole {
	voter := role == metapb.PeerRole_Voter
	switch {
	case kind == eraftpb.ConfChangeType_AddNode && voter:
		return role
	case kind == eraftpb.ConfChangeType_AddNode && joint:
		return metapb.PeerRole_IncomingVoter
	case kind == eraftpb.ConfChangeType_AddNode:
		return metapb.PeerRole_Voter
	case voter && joint:
		return metapb.PeerRole_DemotingVoter
	default:
		return metapb.PeerRole_Learner
	}
}

// inside are the keys at which a region can be split, sorted; PD may name others.
func inside(region *metapb.Region, keys [][]byte) [][]byte {
	var found [][]byte
	for _, key := range keys {
		above := bytes.Compare(key, region.GetStartKey()) > 0
		below := len(region.GetEndKey()) == 0 || bytes.Compare(key, region.GetEndKey()) < 0
		if above && below {
			found = append(found, key)
		}
	}
	sort.Slice(found, func(a, b int) bool { return bytes.Compare(found[a], found[b]) < 0 })
	return found
}

// middle is a key about half way through a region.
func middle(region *metapb.Region) []byte {
	const width = 16
	var low, high [width]byte
	copy(low[:], region.GetStartKey())
	copy(high[:], region.GetEndKey())
	if len(region.GetEndKey()) == 0 {
		copy(high[:], bytes.Repeat([]byte{0xff}, width))
	}
	sum, found := 0, make([]byte, width)
	totals := make([]int, width)
	for i := width - 1; i >= 0; i-- {
		sum += int(low[i]) + int(high[i])
		totals[i] = sum & 0xff
		sum >>= 8
	}
	for i := 0; i < width; i++ {
		value := sum<<8 | totals[i]
		found[i] = byte(value >> 1)
		sum = value & 1
	}
	return found
}

// split cuts a region at its keys. The last piece keeps the number of the whole, as in TiKV.
func split(region *metapb.Region, keys [][]byte, ids []*pdpb.SplitID) ([]*metapb.Region, error) {
	if len(ids) != len(keys) {
		return nil, fmt.Errorf("PD gave %d numbers for %d keys", len(ids), len(keys))
	}
	var pieces []*metapb.Region
	version := region.GetRegionEpoch().GetVersion() + uint64(len(keys))
	start := region.GetStartKey()
	for i, key := range keys {
		piece := copied(region)
		piece.Id, piece.StartKey, piece.EndKey = ids[i].GetNewRegionId(), start, key
		piece.RegionEpoch.Version = version
		if len(ids[i].GetNewPeerIds()) != len(piece.Peers) {
			return nil, fmt.Errorf("PD gave too few peers for region %d", piece.Id)
		}
		for j, peer := range piece.Peers {
			peer.Id = ids[i].GetNewPeerIds()[j]
		}
		pieces, start = append(pieces, piece), key
	}
	last := copied(region)
	last.StartKey, last.RegionEpoch.Version = start, version
	return append(pieces, last), nil
}

// merged is the target with the range of a neighbour.
func merged(target, source *metapb.Region) (*metapb.Region, error) {
	next := copied(target)
	switch {
	case len(source.GetEndKey()) > 0 && bytes.Equal(source.GetEndKey(), target.GetStartKey()):
		next.StartKey = source.GetStartKey()
	case len(target.GetEndKey()) > 0 && bytes.Equal(target.GetEndKey(), source.GetStartKey()):
		next.EndKey = source.GetEndKey()
	default:
		return nil, fmt.Errorf("%d and %d are no neighbours", source.GetId(), target.GetId())
	}
	version := source.GetRegionEpoch().GetVersion()
	if other := target.GetRegionEpoch().GetVersion(); other > version {
		version = other
	}
	next.RegionEpoch.Version = version + 1
	return next, nil
}

func (r *replica) peers() []*metapb.Peer {
	if r == nil {
		return nil
	}
	return r.Region.GetPeers()
}
