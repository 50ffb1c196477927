"""impacket: looks up the SIDs of many accounts, then the names of all these SIDs in one request.

Arguments: the names of the accounts. Prints the names in the response, one per line.
"""

import os
import sys

from impacket.dcerpc.v5 import lsad, lsat, transport
from impacket.dcerpc.v5.dtypes import MAXIMUM_ALLOWED
from impacket.dcerpc.v5.samr import SID_NAME_USE

# Maximum number of names in one request ([MS-LSAT] 3.1.4.5). For SIDs, it is 20,480.
MOST_NAMES = 1000

asked = sys.argv[1:]

binding = transport.DCERPCTransportFactory(r"ncacn_np:127.0.0.1[\pipe\lsarpc]")
binding.set_dport(int(os.environ["SERVER_PORT"]))
binding.set_credentials(os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
rpc = binding.get_dce_rpc()
rpc.connect()
rpc.bind(lsat.MSRPC_UUID_LSAT)
policy = lsad.hLsarOpenPolicy2(rpc, MAXIMUM_ALLOWED | lsat.POLICY_LOOKUP_NAMES)["PolicyHandle"]

sids = []
for start in range(0, len(asked), MOST_NAMES):
    some = asked[start : start + MOST_NAMES]
    answer = lsat.hLsarLookupNames3(rpc, policy, some)
    assert answer["MappedCount"] == len(some), answer["MappedCount"]
    sids += [entry["Sid"].formatCanonical() for entry in answer["TranslatedSids"]["Sids"]]
assert len(set(sids)) == len(asked), f"{len(set(sids))} SIDs for {len(asked)} names"

answer = lsat.hLsarLookupSids(rpc, policy, sids)
assert answer["MappedCount"] == len(asked), answer["MappedCount"]
names = [entry["Name"] for entry in answer["TranslatedNames"]["Names"]]
assert all(entry["Use"] == SID_NAME_USE.SidTypeUser for entry in answer["TranslatedNames"]["Names"])
assert names == asked, "the names come back in another order"
print("\n".join(names))
rpc.disconnect()
