from slotwise.live.calibration import Calibration as Calibration
from slotwise.live.calibration import calibrate as calibrate
from slotwise.live.replaying import replay as replay
from slotwise.live.server.events import LiveObserver as LiveObserver
from slotwise.live.server.live_status import LiveStatus as LiveStatus
from slotwise.live.server.server_config import ServerConfig as ServerConfig
from slotwise.live.server.serving import resume_live as resume_live
from slotwise.live.server.serving import serve as serve
